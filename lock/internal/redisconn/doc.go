// Package redisconn sends Lua scripts to the right node of Redis. The node is a single server, the master
// that Sentinel names, or the master of a slot of a Redis Cluster. Package redisnode serves each node. Neither
// knows locks.
//
// # Layers
//
// Each line uses the lines above it:
//
//	redirect.go              what a node says of other nodes
//	cluster.go, topology.go  the nodes of a cluster, and their slots
//	client.go, batch.go      scripts
//	command.go               commands that are not scripts
package redisconn
