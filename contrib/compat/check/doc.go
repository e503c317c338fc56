// Package check compares the packages of compat with the libraries whose interfaces they have. It is a
// module of its own, so that programs do not depend on these libraries.
package check
