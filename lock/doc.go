// Package lock holds distributed locks: a [Client] takes them from a [Store],
// keeps them alive while they are held, and tells the holder of a loss before
// anybody else can get the lock.
//
//	store, err := redisstore.New(rdb, nil) // or memstore.New()
//	client, err := lock.New(store, nil)
//	defer client.Close(context.Background())
//
//	err = lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context) error {
//		return work(ctx) // ctx ends if the lock is lost
//	})
//
// Or by hand: [Mutex.Lock] and [Mutex.TryLock] return a [Held], a handle of that
// one acquisition, which only its owner has and which may be used from any
// goroutine.
//
// A [Mutex] has one holder at a time. A [Reentrant] is one that its holder can lock
// again. A [RWMutex] has many readers or one writer, a [Semaphore] up to n holders. A
// [Batch] is many members of a group at once. A [Multi] is several locks as one. In an
// [Election] the holder is the leader, whom others see. Each is a [Locker], so one can
// take the place of another. A [Quorum] is several stores as one.
//
// [Client.Inspect] shows who holds a lock, and [Client.ForceRelease] takes it away from
// a holder that hangs. [Terms] say how long leases last, [Options] how a client keeps
// and waits for them. docs/GUIDE.md helps to choose, and says what each error means.
//
// # What a lease cannot promise
//
// A lock on another machine is a lease: it ends when the holder is cut off for
// longer than its TTL. Package renewal sees to it that [Held.Valid] and
// [Held.Err] tell the truth at any instant. But a process may be paused between
// the question and the deed, for longer than the lease lasts. Where that must do
// no harm, give [Held.Token] to the resource and let it refuse lower tokens than
// the highest it has seen: package fence and docs/FENCING.md help with that. The
// other assumptions are in docs/SAFETY.md.
package lock
