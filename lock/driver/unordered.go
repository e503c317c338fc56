// This file is about the interface Unordered, for waiters without an order.

package driver

// Unordered is implemented by a Waiter that does not know all waiters of a lock, because the
// server has no queue for some modes. In these modes:
//
//   - a release wakes waiters, and whoever asks first gets the lock, even by Acquire;
//   - Inspect shows no places, and Info.Waiting is 0.
//
// All other rules of Waiter hold. A Waiter without this interface serves waiters in order.
type Unordered interface {
	// Unordered reports whether the waiters of a mode have no order. It does no IO.
	Unordered(m Mode) bool
}
