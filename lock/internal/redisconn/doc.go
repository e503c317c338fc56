// Package redisconn sends Lua scripts to the right node of Redis and bounds each call by
// a context. The node is a single server, the master that Sentinel names, or the master of
// a slot of a Redis Cluster. The package does not know locks.
//
// # Cancelled contexts
//
// go-redis passes the deadline of a context to the connection, but it does not notice
// that a context is cancelled while it waits for a reply. A read therefore has to be
// given up in another way. There are three ways, because there are three kinds of
// connections:
//
//   - A direct call has a connection that no other call can use at the same time.
//     directConn sets the deadline of that connection to the past, so that the read fails
//     on the goroutine of the caller. This costs no goroutine and no channel, but go-redis
//     closes the connection afterwards. A context that is a [Notifier] says at less cost
//     than others when to do it. See direct.go.
//   - A call in a shared pipeline must not interrupt the connection, because the other
//     calls still wait for their replies. The pipeline runs on its own goroutine, and the
//     caller stops waiting for its channel. See autoPipeliner.wait in autopipeliner.go.
//   - A [Batch] has a connection from a pool that go-redis manages, so the package does not
//     know which connection to interrupt. The batch runs on a goroutine of its own, and the
//     caller stops waiting for it. See await.go.
//
// An abandoned pipeline or batch ends at the deadline that its connection got, or when
// the client is closed. [Client.Wait] waits for it.
//
// # Connections
//
// go-redis also waits for a dial and a handshake for as long as they take. A connector
// therefore makes connections in the background and passes them to go-redis, complete with
// the handshake. A stallDetector notices dead connections: if a request has no answer for a
// while, it makes another connection, and a completed handshake there shows that the server
// is alive and the connection of the request is dead.
//
// # Layers
//
// Each line uses the lines above it:
//
//	timed.go, replylimit.go, trust.go   deadlines, bounds of replies, connections to avoid
//	link.go, handshake.go, dialing.go   one connection, ready for scripts
//	connector.go, stall.go              the connections of a node; dead ones
//	direct.go, autopipeliner.go         single scripts
//	node.go                             one server
//	cluster.go, topology.go, slotgate.go  the nodes of a cluster
//	client.go, batch.go                 what other packages call
package redisconn
