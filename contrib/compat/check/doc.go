// Package check compares the packages of compat with the library whose interfaces they have. It is a
// module of its own, so that programs do not depend on it.
package check
