// Package model is an explicit-state model of the exclusive protocol of package
// redisstore, with a breadth-first search over all reachable states.
//
// The model has one lock, two or three acquisitions of it, and the server. A request
// may be executed never, late, twice and in any order. Answers and messages may be
// lost, late and reordered, and a message may arrive several times. Clients may crash,
// give up and pause at any moment. The server may lose its data, return to an older
// copy, and have its clock set back. Time is counted in ticks; a lease has two or three.
//
// Read state.go first, then actions.go.
//
// The tests compare the scripts of the model with the Lua scripts on a real server:
// the answer, the messages and the keys after every operation in every state.
package model
