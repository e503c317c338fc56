// Package k8slock elects the leader of a Kubernetes controller with a lock on any store, where the
// controller would use a Lease of the API server. [Lock] is a resourcelock.Interface of client-go.
//
// A manager of controller-runtime changes by these lines:
//
//	election := k8slock.New(client, "my-controller", podName)
//	ctx, cancel := election.Context(ctrl.SetupSignalHandler()) // also ends when the leadership is lost
//	defer cancel()
//	manager, err := ctrl.NewManager(config, ctrl.Options{
//		LeaderElection:                      true,
//		LeaderElectionResourceLockInterface: election,
//		LeaderElectionReleaseOnCancel:       true,
//	})
//	...
//	err = errors.Join(manager.Start(ctx), context.Cause(ctx))
//
// With client-go alone, the Lock is LeaderElectionConfig.Lock, and ctx is that of RunOrDie.
//
// # What differs from a Lease
//
// The store decides who leads. An elector on a Lease compares what it reads with its own clock, and
// two electors lead if their settings or their clocks are too different. [Lock.Held] has the term as
// a fencing token, which the receiver of a write can compare.
//
// The rest is the same. The TTL is the elector's LeaseDuration, in whole seconds. Each renewal of the
// elector is one request, and there are no others. A candidate asks every RetryPeriod. A crashed leader
// is replaced after a LeaseDuration, and with ReleaseOnCancel a leader that stops is replaced at once.
// Choose a LeaseDuration that is a tenth longer than RenewDeadline and RetryPeriod together, as the
// defaults are (15 s, 10 s and 2 s). A leader that cannot renew then stops before another one leads.
//
// # Lost leaderships
//
// A leadership can be lost without an outage, for example if an operator releases the lock. Another
// candidate may lead at once then. The elector notices that at its next renewal, but tries on until
// its RenewDeadline has passed. [Lock.Context] ends at the renewal. It also ends at the end of the
// lease, even if the elector is blocked.
//
// An elector does not lead again after a loss until its Run has returned. A program that runs it
// again leads in a new term.
//
// A program cannot mix candidates with a Lease and candidates with a Lock: stop all of them before
// the change. Coordinated elections, an alpha feature of client-go, are not supported.
package k8slock
