// Saved, the state that a holder leaves to the next one.

package driver

// MaxSavedLen is the maximum number of bytes that a holder saves beside a lock.
const MaxSavedLen = 64 << 10

// Saved is the state that a holder of a lock has saved.
type Saved struct {
	Data  []byte
	Token uint64 // of the lease of that holder; 0 if there is no state
}
