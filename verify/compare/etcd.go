// The adapters of etcd's package concurrency and of this project's store on etcd.

package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

var etcdModules = []string{"go.etcd.io/etcd/client/v3"}

func etcdCandidates() []*candidate {
	return []*candidate{
		{name: "etcd concurrency", store: etcdServer, modules: etcdModules, renews: true, open: openEtcd, note: "sessions of 2 s; the token is the revision of the header"},
	}
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
}

func oursOnEtcd(_ context.Context, addrs []string) (driver.Store, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return nil, err
	}
	return etcdstore.New(c, nil)
}

func openEtcd(_ context.Context, addrs []string) (Client, error) {
	c, err := dialEtcd(addrs)
	return &etcdClient{client: c}, err
}

type etcdClient struct {
	client  *clientv3.Client
	session *concurrency.Session // of the last lock
}

// Acquire implements Client. A session that has ended is replaced.
func (c *etcdClient) Acquire(ctx context.Context, key string) (Lease, error) {
	if c.session != nil {
		select {
		case <-c.session.Done():
			c.session = nil
		default:
		}
	}
	if c.session == nil {
		s, err := concurrency.NewSession(c.client, concurrency.WithTTL(int(lease.Seconds())))
		if err != nil {
			return nil, err
		}
		c.session = s
	}
	m := concurrency.NewMutex(c.session, key)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return etcdLease{m, c.session}, nil
}

type etcdLease struct {
	*concurrency.Mutex
	session *concurrency.Session
}

// Holds implements Lease.
func (l etcdLease) Holds() bool {
	select {
	case <-l.session.Done():
		return false
	default:
		return true
	}
}

// Token implements Lease.
func (l etcdLease) Token() uint64 { return uint64(l.Header().Revision) }

// Release implements Lease.
func (l etcdLease) Release(ctx context.Context) error { return l.Unlock(ctx) }
