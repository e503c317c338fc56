// Package histories records what the users of a lock saw while servers and networks failed, and
// checks that it is linearizable: that the calls on each key have an order, compatible with their
// times, in which one user has the lock at a time and tokens rise.
//
// A lease ends in its Unlock. If it was lost, it ends at any time after the last instant at which
// its holder saw that Valid was true. So a history is wrong if a lock was granted while its
// previous holder could still believe in it.
//
// [Load] runs users of several clients, for tests of stores.
//
// The order is searched by the algorithm of Wing and Gong with the improvements of Lowe, as package
// porcupine implements it.
package histories
