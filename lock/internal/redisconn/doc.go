// Package redisconn sends Lua scripts to the right node of Redis. The node is a single server, the master
// that Sentinel names, or the master of a slot of a Redis Cluster. Package redisnode sends the requests to
// each node. Neither package knows what the scripts do.
//
// # Files
//
//	client.go                 scripts, for one server or a cluster
//	command.go                commands that are not scripts
//	cluster.go, topology.go   the nodes of a cluster, and their slots
//	redirect.go, moves.go     what nodes say of other nodes; fail-overs told from moved slots
//	errors.go                 errors without secrets
package redisconn
