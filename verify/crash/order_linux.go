package crash

import (
	"encoding/json"
	"os"
	"time"
)

// orderVariable holds the order of a process that is started to be ended.
const orderVariable = "VERIFY_CRASH_ORDER"

// Roles of such a process.
const (
	holder = "holder" // holds its keys
	zombie = "zombie" // writes all the time while it holds them, and after
	flood  = "flood"  // takes and gives back, many at a time
)

// order is what a process is to do.
type order struct {
	Role string
	Addr string // of the server
	TTL  time.Duration
	Keys []string
}

// ordered returns the order of this process, if it has one.
func ordered() (order, bool) {
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

// Reports of a process, one a line, in the order in which they come.

// holding says that all keys are held.
type holding struct{ Tokens map[string]uint64 }

// closed says how Close went, after SIGTERM, and how many locks had been lost.
type closed struct {
	Err  string
	Lost uint64
}

// awake is what a zombie knows when it has been told that its locks are lost.
type awake struct{ Leases map[string]undead }

// undead is a lease of a zombie. Instants are Unix nanoseconds.
type undead struct {
	Valid    int64  // just before Valid was true for the last time
	Told     int64  // when its context ended
	Cause    string // of its context
	WasLoss  bool   // that cause is ErrLost
	Written  int64  // just before the last write that was accepted
	Refused  int    // writes that were refused
	Guarded  int    // those of them that were sent after Valid was true
	Untold   int    // times that it found itself invalid, and its context had not ended
	Revivals int    // times that Valid was true, or Err nil, after Valid was false
}
