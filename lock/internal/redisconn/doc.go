// Package redisconn sends Lua scripts to the right node of Redis. The node is a single server, the master
// that Sentinel names, or the master of a slot of a Redis Cluster. Package redisnode sends the requests to
// each node. Neither package knows what the scripts do.
//
// # Files
//
//	client.go     scripts, for one server or a cluster
//	command.go    commands that are not scripts
//	cluster.go    the nodes of a cluster, and redirections
//	topology.go   their slots, and fail-overs
//	errors.go     errors without secrets
package redisconn
