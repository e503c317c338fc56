// Package sim runs the core of this module, unchanged, against a store that is
// simulated: both timer engines, package renewal and package lock, with several
// clients that contend for few keys. A schedule runs in a synctest bubble, so its
// time is virtual, and minutes of leases take milliseconds.
//
// A seed decides everything that a schedule meets: delays, lost requests and
// answers, requests that are executed late, twice or in another order, partitions,
// servers that go down and lose data, clocks that drift and step, processes that
// stand still, and what its users do and when. The fate of a message depends on the
// seed and on what the message is, not on the order in which goroutines ran, so a
// seed nearly always plays the same schedule again.
//
// Oracles watch: at every grant of the server, at random instants, and around each
// deadline. They know the promises of docs/SAFETY.md and the formula of the
// deadline, and nothing of the code they watch.
package sim
