// Command mutate finds out what the tests of a package do not see: it changes the
// package in small ways, one at a time, and runs its tests. A change that no test
// notices is printed.
//
//	go run ./mutate ./renewal                 # all mutants of a package
//	go run ./mutate -n 300 -seed 7 ./renewal  # so many, drawn by a seed
//	go run ./mutate -only entry.go ./renewal  # those whose description matches
//	go run ./mutate -lua                      # of the scripts of package redisstore
//
// All mutants of a package are compiled into one test program, each behind a switch
// that an environment variable sets, so that a mutant costs one run of those tests
// that execute its line, up to the first that fails. Nothing is written into the
// source tree: the go command is given the changed files as an overlay.
//
//	find.go        which changes there are
//	change.go      what is changed
//	weave.go       a file with all of them in it
//	build.go       compiling it, without those that do not compile
//	cover.go       which tests execute which lines, and how long they take
//	suite.go       running them, with a mutant
//	trial.go       what becomes of it
//	equivalent.go  mutants that change nothing, with the reason
//	lua.go         the same for scripts
//
// Mutants that change nothing that is promised stand in equivalent.txt, by the
// function and the text that is changed, so that the list survives edits elsewhere.
package main
