package guard

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// authenticity is one who vouches for servers.
type authenticity struct {
	t     *testing.T
	roots *x509.CertPool
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
}

func newAuthenticity(t *testing.T) *authenticity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &authenticity{t: t, key: key, roots: x509.NewCertPool()}
	ca.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.roots.AddCert(ca.sign(ca.cert).Leaf)
	return ca
}

func (ca *authenticity) sign(template *x509.Certificate) tls.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &ca.key.PublicKey, ca.key)
	require.NoError(ca.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(ca.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca.key, Leaf: leaf}
}

func (ca *authenticity) server() tls.Certificate {
	return ca.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// terminator speaks TLS before a server that does not.
type terminator struct {
	addr string
	work sync.WaitGroup

	mu       sync.Mutex // guards versions
	versions []uint16   // of the connections that were agreed upon
}

func terminate(t *testing.T, config *tls.Config) *terminator {
	target := shared.Server(t).Addr()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	x := &terminator{addr: l.Addr().String()}
	x.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			x.work.Go(func() { x.serve(tls.Server(conn, config), target) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		x.work.Wait()
	})
	return x
}

func (x *terminator) serve(conn *tls.Conn, target string) {
	defer conn.Close()
	if conn.Handshake() != nil {
		return
	}
	x.mu.Lock()
	x.versions = append(x.versions, conn.ConnectionState().Version)
	x.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	x.work.Go(func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	})
	_, _ = io.Copy(server, conn)
	_ = server.Close()
}

func (x *terminator) agreed() []uint16 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.versions
}

// open returns a store by way of the terminator.
func (x *terminator) open(t *testing.T, config *tls.Config) *redisstore.Store {
	rdb := redis.NewClient(&redis.Options{Addr: x.addr, TLSConfig: config})
	t.Cleanup(func() { _ = rdb.Close() })
	s, err := redisstore.New(rdb, &redisstore.Options{Prefix: "lw:" + rand.Text() + ":", Timeout: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTLS(t *testing.T) {
	ca := newAuthenticity(t)
	const v11, v12, v13 = tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13
	t.Run("works", func(t *testing.T) {
		x := terminate(t, &tls.Config{Certificates: []tls.Certificate{ca.server()}, MinVersion: v12})
		passOn(t, x.open(t, &tls.Config{RootCAs: ca.roots, MinVersion: v12}))
		assert.GreaterOrEqual(t, len(x.agreed()), 3, "requests, renewals, and the subscription")
		for _, version := range x.agreed() {
			assert.EqualValues(t, v13, version)
		}
	})
	var unknown x509.UnknownAuthorityError
	var misnamed x509.HostnameError
	for name, tc := range map[string]struct {
		server, client *tls.Config
		target         any
		text           string
	}{
		"the server is unknown":           {&tls.Config{}, &tls.Config{}, &unknown, ""},
		"the server is another":           {&tls.Config{}, &tls.Config{RootCAs: ca.roots, ServerName: "redis.example"}, &misnamed, ""},
		"the version is that of old":      {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: v11}, &tls.Config{RootCAs: ca.roots}, nil, "protocol version"},
		"the version is below the user's": {&tls.Config{MaxVersion: v12}, &tls.Config{RootCAs: ca.roots, MinVersion: v13}, nil, "protocol version"},
		"the client has no certificate":   {&tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: v12}, &tls.Config{RootCAs: ca.roots}, nil, "handshake failure"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.Certificates = []tls.Certificate{ca.server()}
			x := terminate(t, tc.server)
			s := x.open(t, tc.client)
			_, err := s.Acquire(t.Context(), request("k"))
			require.Error(t, err)
			if tc.target != nil {
				require.ErrorAs(t, err, tc.target)
			} else {
				require.ErrorContains(t, err, tc.text)
			}
			require.Error(t, s.Renew(t.Context(), []lock.Lease{{Request: request("k"), Token: 17}}, outcomes(1)))
			assert.Empty(t, x.agreed())
		})
	}
	t.Run("one side does not speak it", func(t *testing.T) {
		x := terminate(t, &tls.Config{Certificates: []tls.Certificate{ca.server()}})
		_, err := x.open(t, nil).Acquire(t.Context(), request("k"))
		require.Error(t, err)
		plain := &terminator{addr: shared.Server(t).Addr()}
		_, err = plain.open(t, &tls.Config{RootCAs: ca.roots}).Acquire(t.Context(), request("k"))
		require.Error(t, err)
	})
}

// passOn takes a lock, renews it, and hands it over to one that waits.
func passOn(t *testing.T, s *redisstore.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := s.Acquire(ctx, request("k"))
	require.NoError(t, err)
	require.NoError(t, s.Renew(ctx, []lock.Lease{l}, outcomes(1)))
	got := make(chan error, 1)
	go func() {
		l, err := s.Wait(ctx, request("k"))
		if err == nil {
			err = s.Release(ctx, l)
		}
		got <- err
	}()
	require.Eventually(t, func() bool { return waitingOf(t, s, "k") == 1 }, 10*time.Second, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // for the subscription
	require.NoError(t, s.Release(ctx, l))
	require.NoError(t, <-got)
}
