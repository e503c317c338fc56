// Package redisnode sends Lua scripts to one server of Redis, and bounds each call by a context. The server is
// a single one, the master that Sentinel names, or a node of a cluster, whose redirections are errors here.
//
// # Clients
//
// A Node has clients of go-redis with its own pools: one for single scripts, one for batches, which a
// stalled script must not delay, and one for batches that replicas confirm. They have the options of the
// user's client, but they repeat nothing, and only the context bounds an answer. Options.Instrument gets
// them.
//
// # Connections
//
// The Dialer of the clients, conns.dial, wraps the connections of the user's Dialer in a conn. The
// Dialer tells of failed dials and keeps them from closing the pool. The wrapper lets go-redis use no
// connection that was silent during a request without an answer, and ends the reads and writes of a
// request that was cancelled; call.go says how.
//
// # Layers
//
// Each line uses the lines above it:
//
//	calls.go              the calls of a client, which end with it
//	conn.go, options.go   connections
//	call.go               one request of go-redis, and its end
//	queue.go              single scripts of many callers
//	node.go, batch.go     what a client calls
package redisnode
