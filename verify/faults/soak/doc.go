// Package soak holds many leases in one process for a long time. Meanwhile it releases
// and reacquires some of them, and a fault occurs once a minute. Finally it releases
// all of them and checks that nothing was lost and nothing has grown.
package soak
