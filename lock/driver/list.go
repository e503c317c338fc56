// The interface Lister, which enumerates locks.

package driver

import "context"

// Lister is implemented by a Store that can enumerate its locks.
type Lister interface {
	// List returns keys that begin with prefix and are held in any mode, or kept after a
	// release (see Description.Keeps), in any order, and the cursor of the next call. The cursor of the
	// first call is "", and List returns "" with the last keys. A call may return no keys and a
	// cursor. Cursors belong to the store, whose form of them nobody else knows; they have at
	// most 1,024 bytes. List returns an error for one that it cannot have returned for the prefix.
	//
	// A key that is held from the first call to the end of the last one is returned at
	// least once. Any other key may be returned or not, and so may a key that holds something
	// that is not a lock. The keys of queues and tombstones are not locks. A key may be
	// returned twice.
	//
	// One call does a bounded amount of work on the server, whatever the number of locks and
	// of other keys. List returns an error, rather than an end, if it can no longer find all
	// keys, for example because a server of a cluster has been replaced. A store documents the
	// changes of its servers that it cannot notice.
	List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error)
}
