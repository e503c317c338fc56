package lock

// Mode is the kind of lock that a Request asks for.
//
// A key is held in one family of modes at a time: Exclusive alone, or Read and
// Write, or Permit, or Members. A store answers ErrWrongType to a request of
// another family while there is a lease or one that waits, and errors.ErrUnsupported,
// before any IO, to a mode that it does not know; Exclusive it must know.
//
// In all modes those that wait are not overtaken by an Acquire, and those behind one
// that leaves its place get what it alone kept them from.
type Mode uint8

const (
	// Exclusive: one holder at a time.
	Exclusive Mode = iota

	// Read: any number of readers, while there is no writer. Each has a lease of
	// its own. A Read by the owner that holds the Write turns it into a Read, with
	// the same token and its full TTL; a Write by the owner of a Read is a message
	// that came late: it changes nothing, and is answered with a *HeldError. Neither
	// Renew nor Release cares which of both modes the lease names: a client names Read
	// from before the turn.
	Read

	// Write: one writer, while there are no readers. Those that wait are served in
	// the order in which they came, readers in one go: a reader does not overtake
	// a writer that waits.
	Write

	// Permit: at most Extra.Limit holders at a time. Each request is judged by the
	// limit that it brings. Those that wait are served in the order in which they
	// came.
	Permit

	// Members: holders whose Extra.Members have nothing in common. A request is
	// granted as a whole or not at all, and renewed and released as a whole. Those
	// that wait are served in the order in which they came, as far as they want the
	// same members: one that wants others is not kept waiting by them.
	Members
)

// String returns the mode in a word.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Read:
		return "read"
	case Write:
		return "write"
	case Permit:
		return "permit"
	case Members:
		return "members"
	}
	return "unknown mode"
}

// Extra is what few requests have. It is shared by copies of a Request and must
// not be changed.
type Extra struct {
	Limit    int      // for Permit: how many may hold the key at a time, at least 1
	Members  []string // for Members: what is asked for of the key, sorted, none twice, none empty
	Metadata string   // shown to whoever inspects the lock, "" = none; at most MaxMetadataLen bytes
}

// Limit returns that of r.Extra, 0 if it has none.
func (r Request) Limit() int {
	if r.Extra == nil {
		return 0
	}
	return r.Extra.Limit
}

// Members returns those of r.Extra, nil if it has none.
func (r Request) Members() []string {
	if r.Extra == nil {
		return nil
	}
	return r.Extra.Members
}

// Metadata returns that of r.Extra, "" if it has none.
func (r Request) Metadata() string {
	if r.Extra == nil {
		return ""
	}
	return r.Extra.Metadata
}
