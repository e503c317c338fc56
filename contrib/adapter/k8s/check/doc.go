// Package check runs the manager of controller-runtime, and the elector of client-go, with a k8slock.Lock.
// It is a module of its own, because users of k8slock do not need these dependencies. It requires the
// client-go that k8slock requires, so that this is compiled once; make test-newest tests the newest.
package check
