// Command mutate is a mutation tester: it makes small changes to a package or to the
// Lua scripts, one at a time, and runs the tests. It prints each change that no test
// notices. A flag sets the folder of the module, which is .. by default.
//
//	go run ./mutate ./renewal                 # all mutants of a package
//	go run ./mutate -n 300 -seed 7 ./renewal  # a sample, drawn by a seed
//	go run ./mutate -only entry.go ./renewal  # mutants whose description matches
//	go run ./mutate -lua                      # the scripts of package redisstore
//	go run ./mutate -list ./renewal           # print the mutants, run nothing
//	go run ./mutate -update                   # follow renames in equivalent.txt
//
// A mutant replaces an operator or a number by another one, negates a condition,
// leaves a statement out, or returns a zero value. The command fails if the tests kill
// less than a share of the mutants (-floor).
//
// # How it works
//
// The command compiles all mutants of a package into one test program. An environment
// variable selects the mutant that is active, so each mutant costs one run of the
// tests that execute its line, from the quickest on, up to the first failure. The
// go command reads the changed files from an overlay; the source tree stays untouched.
//
//	find.go        the places where a change is possible
//	operators.go   the changes of an expression or statement
//	instrument.go  a source file that contains all its mutants
//	build.go       the test program, without mutants that do not compile
//	cover.go       the lines that each test executes
//	suite.go       the tests, run with a mutant
//	status.go      the status of a mutant, and the summary
//	equivalent.go  the list of equivalent mutants
//	lua_find.go    the mutants of a script
//	lua_run.go     the tests of the scripts
//
// # Equivalent mutants
//
// Some mutants change nothing that the library promises, and no test can fail for
// them. equivalent.txt lists them with a reason each. The key is the function and the
// text before and after the change, so that edits elsewhere do not matter. If
// identifiers were renamed, an entry still matches the only mutant with the same text
// up to renaming; -update then writes the new names into the list. A test fails for
// entries that match no mutant.
//
// # Other tools
//
// gremlins (github.com/go-gremlins/gremlins) has some of these changes, and compiles
// the tests once per mutant. It leaves out no statements other than some loop controls,
// has no list of equivalent mutants, and does not know Lua.
package main
