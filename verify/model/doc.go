// Package model is an explicit-state model of the exclusive protocol of package
// redisstore, with a breadth-first search over all reachable states.
//
// The model has one lock, two or three acquisitions of it, and the server. A request
// may be executed never, late, twice and in any order. Answers and messages may be
// lost, late and reordered, and a message may arrive several times. Clients may crash,
// give up and pause at any moment. The server may lose its data, return to an older
// copy, and have its clock set back. Time is counted in ticks; a lease has two or three.
//
//	state.go                      the state of server, owners and network
//	server.go, keys.go            the scripts
//	client.go                     the rules of clients for answers and messages
//	guest.go                      a second client that resumes the lease of an owner
//	saves.go                      the state that a holder leaves to the next one
//	actions.go, transitions.go    the actions that are enabled in a state, and their effects
//	execute.go                    requests on the server, and the promises of each step
//	invariants.go, liveness.go    the promises of each state, and after all faults stop
//	reduction.go                  symmetry and state reduction
//	search.go, visited.go         breadth-first search, and the set of visited states
//	config.go, spaces.go          bounds of a state space, and the spaces that are searched
//	mutations.go                  rules that are broken to check that the search finds it
//	trace.go                      readable traces
//
// The tests compare the scripts of the model with the Lua scripts on a real server:
// the answer, the messages and the keys after every operation in every state.
package model
