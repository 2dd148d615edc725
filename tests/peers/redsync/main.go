// redsync: see ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	pools "github.com/go-redsync/redsync/v4/redis"
)

const delay = 10 * time.Millisecond

type order struct {
	Work, Kind, Name       string
	Tasks, Clients, Millis int
	Count, Pause           int
}

type answer struct {
	Waits     [][]int64 `json:"waits"`
	Seconds   float64   `json:"seconds"`
	Processor float64   `json:"processor"`
	Met       int       `json:"met"`
}

type client struct {
	one, all *redsync.Redsync
	redis    *redis.Client
}

func connect(addresses []string) client {
	var all []pools.Pool
	var servers []*redis.Client
	for _, address := range addresses {
		server := redis.NewClient(&redis.Options{Addr: address})
		servers = append(servers, server)
		all = append(all, goredis.NewPool(server))
	}
	return client{redsync.New(all[0]), redsync.New(all...), servers[0]}
}

func processor() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3
}

func mutexOf(locks *redsync.Redsync, name string) *redsync.Mutex {
	return locks.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(1<<30), redsync.WithRetryDelay(delay))
}

func read(server *redis.Client, key string) string {
	text, err := server.Get(context.Background(), key).Result()
	if err != nil && err != redis.Nil {
		log.Fatal(err)
	}
	return text
}

// Adds one to what is stored, under the lock; says whether somebody else had been there last.
func add(server *redis.Client, key string) bool {
	text := read(server, key)
	var number int
	if text != "" {
		if _, err := fmt.Sscanf(text, "%d", &number); err != nil {
			log.Fatal(err)
		}
	}
	if again := read(server, key); again != text {
		log.Fatalf("%q has become %q under the lock", text, again)
	}
	value := fmt.Sprintf("%d redsync", number+1)
	if err := server.Set(context.Background(), key, value, 0).Err(); err != nil {
		log.Fatal(err)
	}
	return text != "" && !strings.HasSuffix(text, " redsync")
}

func counted(locks *redsync.Redsync, server *redis.Client, it order) (waits []int64, met int) {
	mutex := mutexOf(locks, it.Name)
	for range it.Count {
		start := time.Now()
		if err := mutex.Lock(); err != nil {
			log.Fatal(err)
		}
		waits = append(waits, time.Since(start).Microseconds())
		if add(server, it.Name+":count") {
			met++
		}
		if _, err := mutex.Unlock(); err != nil {
			log.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(it.Pause)*1e6 + 1)))
	}
	return waits, met
}

func work(locks *redsync.Redsync, pairs bool, name string, end time.Time) []int64 {
	mutex := mutexOf(locks, name)
	var waits []int64
	for time.Now().Before(end) {
		start := time.Now()
		if err := mutex.Lock(); err != nil {
			log.Fatal(err)
		}
		wait := time.Since(start)
		if _, err := mutex.Unlock(); err != nil {
			log.Fatal(err)
		}
		if pairs {
			wait = time.Since(start)
		}
		waits = append(waits, wait.Microseconds())
	}
	return waits
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, it := range info.Deps {
			if it.Path == "github.com/go-redsync/redsync/v4" {
				return it.Version
			}
		}
	}
	return "unknown"
}

func main() {
	say := json.NewEncoder(os.Stdout)
	say.Encode(map[string]any{
		"name": "redsync", "version": version(), "kinds": []string{"mutex", "redlock"},
		"settings": fmt.Sprintf("go-redis, its default pool; tries again after %v", delay),
	})
	var clients []client
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var it order
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			log.Fatal(err)
		}
		for len(clients) < it.Clients {
			clients = append(clients, connect(os.Args[1:]))
		}
		waits := make([][]int64, it.Clients)
		var tasks sync.WaitGroup
		var mutex sync.Mutex
		var met int
		began, used := time.Now(), processor()
		end := began.Add(time.Duration(it.Millis) * time.Millisecond)
		for number := range it.Tasks {
			which, name := number%it.Clients, it.Name
			if it.Work == "pairs" {
				name = fmt.Sprintf("%s:%d", name, number)
			}
			locks := clients[which].one
			if it.Kind == "redlock" {
				locks = clients[which].all
			}
			tasks.Add(1)
			go func() {
				defer tasks.Done()
				var its []int64
				var others int
				if it.Work == "counted" {
					its, others = counted(locks, clients[which].redis, it)
				} else {
					its = work(locks, it.Work == "pairs", name, end)
				}
				mutex.Lock()
				defer mutex.Unlock()
				waits[which] = append(waits[which], its...)
				met += others
			}()
		}
		tasks.Wait()
		for i := range waits {
			if waits[i] == nil {
				waits[i] = []int64{}
			}
		}
		say.Encode(answer{waits, time.Since(began).Seconds(), processor() - used, met})
	}
}
