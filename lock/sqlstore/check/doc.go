// Package check tests package sqlstore on the databases that it is for, and under faults. It is a module of
// its own, so that programs which use the store depend on no driver but theirs.
package check
