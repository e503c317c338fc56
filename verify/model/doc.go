// Package model is a model of the protocol of package redisstore, and a checker
// that looks at every state which the model can be in.
//
// The model is of one lock, two or three acquisitions of it, and the server. Every
// request may be executed never, late, twice and in any order; every answer and
// signal may arrive never, late and in any order, a signal any number of times.
// Clients may crash, give up and stand still at any moment. The server may lose its
// data, fall back to an older copy of it, and have its clock set back. Time goes in
// ticks, of which a lease has two or three.
//
//	server.go, keys.go   what the scripts do
//	client.go            what clients do with answers and signals
//	steps.go, apply.go   what can happen, and what comes of it
//	execute.go, check.go what must hold, in every step, state, and when faults stop
//	tidy.go              which differences between states make none
//	search.go, table.go  all states, nearest first
//	bugs.go, spaces.go   rules that are broken to see that it is found; what is searched
//	text.go              the way to a broken promise, to be read
//
// The scripts of the model and those in use are compared on a real server: every
// operation in every state, the answers, the signals, and all that is in the keys.
package model
