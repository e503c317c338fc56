// Package redisnode sends Lua scripts to one server of Redis, and bounds each call by a context. The server is
// a single one, the master that Sentinel names, or a node of a cluster, whose redirections are errors here.
//
// A Node has lanes: clients of go-redis with one connection each, which dial when they are first used. They have the
// options of the user's client, but they repeat nothing. Options.Instrument gets them.
package redisnode
