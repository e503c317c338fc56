// Package check runs the manager of controller-runtime, and the elector of the client-go below it, with a
// k8slock.Lock. It is a module of its own, because users of k8slock do not need these dependencies. It
// requires the client-go of k8slock, so that this is compiled once; make test-newest takes the newest.
package check
