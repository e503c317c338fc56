// Command compare runs one suite of faults against lock clients and writes the comparison of
// docs/COMPARISON.md. Each client runs in processes of its own, which speak the protocol that
// README.md describes. The faults come from outside: from a TCP proxy, from signals, and from the
// servers.
//
//	go run .                                       # all clients and faults, 20 rounds of each
//	go run . -quick                                # two clients, one round
//	go run . -clients redsync -faults cut -rounds 3
//	go run . -print                                # only the page, from results/compare.json
package main
