// Package redisnode sends Lua scripts to one server of Redis, and bounds each call by a context. The server is
// a single one, the master that Sentinel names, or a node of a cluster, whose redirections are errors here.
//
// # Clients
//
// A Node has two or three clients of go-redis, each with a pool of its own. One carries single scripts. One
// carries batches, so that a stalled script does not delay them. With Options.Acks, a third carries batches
// that replicas confirm. The clients have the options of the user's client, but they repeat nothing, and only
// the context bounds an answer. Options.Instrument gets them.
//
// # Connections
//
// The Dialer of the clients, conns.dial, wraps the connections of the user's Dialer in a conn. The
// Dialer tells of failed dials and keeps them from closing the pool. The wrapper lets go-redis use no
// connection that was silent during a request without an answer, and ends the reads and writes of a
// request that was cancelled; call.go says how.
//
// # Files
//
//	node.go, batch.go      what package redisconn calls
//	queue.go               single scripts of many callers
//	call.go, calls.go      one request and its end; all calls of a client and their end
//	conn.go, options.go    connections and their options
//	notice.go, errors.go   notices and errors
package redisnode
