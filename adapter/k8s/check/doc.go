// Package check runs the manager of controller-runtime, and the newest elector of client-go, with a
// k8slock.Lock. It is a module of its own, because users of k8slock do not need these dependencies.
package check
