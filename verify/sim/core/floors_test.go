package core

import "github.com/leasewheel/leasewheel/verify/sim"

// usual is half of what a schedule does on average over all classes.
var usual = sim.Floors{
	Operations: map[string]float64{
		"lock": 14, "try lock": 6, "unlock": 8, "acquire": 50, "wait": 25, "release": 40, "renew": 11, "renewed": 7, "hand-over": 1.2, "enter again": 2.2,
	},
	Faults: map[string]float64{
		"lost request": 3.5, "lost reply": 2.5, "late request": 4, "slow reply": 2.5, "twice": 0.6, "refused": 1.8,
		"partition": 0.9, "one-way partition": 0.9, "request in a partition": 6, "reply in a partition": 2.5,
		"lost signal": 0.12, "late signal": 0.08, "request while down": 20, "server down": 0.6, "data lost": 0.6, "fail-over": 0.6,
		"delete": 0.6, "steal": 0.6, "force": 0.6, "pause": 3.5, "close": 0.3, "crash": 0.2,
		"server clock ahead": 0.4, "server clock back": 0.3, "client clock ahead": 0.4, "client clock back": 0.2, "suspension": 0.2,
	},
	Losses: map[string]float64{"no longer owned": 1.1, "renewals failed": 0.35, "deadline passed": 1},
	Checks: map[string]float64{
		"holding": 30, "exclusion": 0.15, "deadline": 9, "told": 1.1, "renewal": 11, "unlock": 8, "token": 9, "leak": 30,
		"left": 1, "close": 2, "served": 0.7, "noticed": 0.15, "stats": 40, "answer": 20, "loss": 2.5, "reentry": 2.2, "inner unlock": 2.2,
	},
}

// wideFloors are half of what a wide schedule of each class does on average.
var wideFloors = []sim.Floors{
	{Operations: map[string]float64{"extreme options": 1.2, "hand-over": 1.8, "lock": 7, "renewed": 16}, Checks: map[string]float64{"holding": 24}},
	{Operations: map[string]float64{"lock": 7}, Faults: map[string]float64{"engine closed": 2}, Checks: map[string]float64{"told": 0.4, "holding": 12}},
	{Operations: map[string]float64{"lock": 7, "hand-over": 1}, Faults: map[string]float64{"engine blocked": 2}, Checks: map[string]float64{"told": 1, "holding": 24}},
	{Operations: map[string]float64{"lock": 12, "try lock": 5, "hand-over": 0.6}, Faults: map[string]float64{"late request": 20, "slow reply": 16, "lost reply": 2.5}, Checks: map[string]float64{"leak": 30}},
	{Operations: map[string]float64{"lock": 2, "kept": 0.5}, Checks: map[string]float64{"kept": 0.3, "rest of MinHold": 0.5}},
}
