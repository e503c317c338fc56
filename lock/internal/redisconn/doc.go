// Package redisconn sends Lua scripts to the right node of Redis. The node is a single server, the master
// that Sentinel names, or the master of a slot of a Redis Cluster. Package redisnode sends the requests to
// each node. Neither package knows what the scripts do.
package redisconn
