// Command etcd runs an etcd server for the tests of this module and of others, which then do not depend
// on the server. It keeps its files in the folder that is its argument, prints its address, and ends with
// its standard input. Without flags it is a cluster by itself, at any port.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	startTimeout = time.Minute // on a busy machine
	anyPort      = "http://127.0.0.1:0"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	case <-time.After(startTimeout):
		return fmt.Errorf("the server has not started within %v", startTimeout)
	}
	fmt.Fprintln(out, server.Clients[0].Addr())
	_, err = io.Copy(io.Discard, in)
	return err
}

// parse returns the settings that the arguments describe.
func parse(args []string) (*embed.Config, error) {
	c := embed.NewConfig()
	c.LogLevel, c.UnsafeNoFsync = "fatal", true
	c.BcryptCost = 4 // the least
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.StringVar(&c.Name, "name", c.Name, "the `name` of this server in its cluster")
	flags.StringVar(&c.InitialCluster, "cluster", "", "the `servers` of the cluster: name=URL,...")
	flags.UintVar(&c.ElectionMs, "election", c.ElectionMs, "the `milliseconds` without a leader until an election")
	flags.UintVar(&c.MaxTxnOps, "max-txn-ops", c.MaxTxnOps, "the operations of a transaction")
	streams := flags.Uint("max-concurrent-streams", math.MaxUint32, "the calls under way on a connection")
	client := flags.String("client", anyPort, "the `URL` for clients")
	listenPeer := flags.String("listen-peer", anyPort, "the `URL` at which it listens for other servers")
	peer := flags.String("peer", "", "the `URL` at which other servers reach it, if it is another")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() != 1 {
		return nil, errors.New("the argument must be a folder")
	}
	c.Dir = flags.Arg(0)
	c.MaxConcurrentStreams = uint32(min(*streams, math.MaxUint32))
	c.TickMs = c.ElectionMs / 10 // as by default
	var errs [3]error
	c.ListenClientUrls, errs[0] = urls(*client)
	c.ListenPeerUrls, errs[1] = urls(*listenPeer)
	c.AdvertisePeerUrls, errs[2] = urls(cmp.Or(*peer, *listenPeer))
	c.AdvertiseClientUrls = c.ListenClientUrls
	c.InitialCluster = cmp.Or(c.InitialCluster, c.InitialClusterFromName(c.Name))
	return c, errors.Join(errs[:]...)
}

func urls(of string) ([]url.URL, error) {
	u, err := url.Parse(of)
	if err != nil {
		return nil, err
	}
	return []url.URL{*u}, nil
}
