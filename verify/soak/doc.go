// Package soak keeps many leases in one process for a long time, while some are
// given back and taken again all the time and something fails once a minute. Then
// it gives all back, and looks whether everything is where it was: nothing was lost,
// nothing has grown.
package soak
