// Package driver defines what a store of locks implements and what package lock
// asks of it. This package is for authors of stores, as
// database/sql/driver is for authors of SQL drivers. Programs that use locks need package lock
// only, and [Wrap] if they trace the calls of their store.
//
// A store embeds [Base], implements Acquire, Renew and Release of [Store], and replaces what else it can do.
// Its [Description] states what that is; the client decides by it when it is made. A wrapper of stores embeds
// the Store that it wraps, or is one of [Wrap].
//
// Package [locktest] holds the contract as tests. The page [writing a store] leads through
// it, from the three methods to everything that a store may offer.
//
// # Calls
//
// All methods must be safe for concurrent use. They must do nothing if their ctx
// has ended already, and must return soon after it ends, with its cause. The
// client gives every call a context whose cause is private to package lock. It
// adds the cause of the user's context to the error afterwards, so an error of
// this package that a store returns is the store's own answer. Deadline and
// values of the context are the user's. A ctx may outlive its call, so a
// method must end what it has begun.
//
// The text of an error names the operation and the reason. Package lock adds the key.
//
// Every operation is idempotent for its owner, because any request may be executed
// late, or twice, or without its answer arriving:
//
//   - an Acquire by an owner that holds the lock returns the same token;
//   - a Release by an owner that holds nothing changes nothing;
//   - a Renew never creates a lease.
//
// A lease is held by nobody once its TTL has passed on the clock of the server since its last
// renewal, or [TTLLimits].Longest of the TTL if the store has limits. The
// holder relies on the TTL alone in any case, and never on an end that a server reports.
//
// [locktest]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock/locktest
// [writing a store]: https://github.com/leasewheel/leasewheel/blob/main/docs/EXTENDING.md
package driver
