// The orders to child processes, and the reports of these.

package crash

import (
	"encoding/json"
	"os"
	"time"
)

// orderVariable is the environment variable with the order of a child process.
const orderVariable = "VERIFY_CRASH_ORDER"

// Roles of a child process.
const (
	holder  = "holder"  // holds its locks
	writer  = "writer"  // writes to the resource while it holds its locks and later
	churner = "churner" // locks and unlocks with many goroutines
	saver   = "saver"   // locks, reads the state of the key, saves the next one, and unlocks
)

// order is the task of a child process.
type order struct {
	Role string
	Addr string // of the server
	TTL  time.Duration
	Keys []string
	Log  string // the file of a saver
	Mute bool   // nobody reads its standard error, which is full
}

// childOrder returns the order of this process, if it is a child.
func childOrder() (order, bool) {
	text := os.Getenv(orderVariable)
	if text == "" {
		return order{}, false
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o, true
}

// Reports of a child process, one line each, in the order in which they are sent.

// lockedReport is sent when all locks are held.
type lockedReport struct{ Tokens map[string]uint64 }

// closedReport is sent after Close: its error, and the number of lost locks.
type closedReport struct {
	Err  string
	Lost uint64
}

// lostReport is sent by a writer when all of its locks are lost.
type lostReport struct{ Leases map[string]leaseReport }

// leaseReport describes a lease of a writer. Instants are Unix nanoseconds.
type leaseReport struct {
	Valid    int64  // before the last Valid that was true
	Told     int64  // end of its context
	Cause    string // cause of its context
	WasLoss  bool   // the cause is ErrLost
	Written  int64  // before the last accepted write
	Refused  int    // refused writes
	Guarded  int    // refused writes that were sent after Valid was true
	Untold   int    // times that Valid was false and the context had not ended
	Revivals int    // times that Valid was true, or Err nil, after Valid had been false
}
