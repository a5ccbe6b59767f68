# The database is slow, and a node wakes up just before its fence goes in. The fence names the lease that the other node saw: it hits nobody.
nodes 2 partitions 2
run 8s unseen
commits take 300ms
run 2s unseen
node-1 sleeps 5800ms
run 5s
look
> node-0 serves partition 1
> node-1 sleeps, and remembers partition 0
> no node serves partition 0
run 3s
> 16.488 s  node-0 fences node-1, whose lease stands at 23
> 16.796 s  node-0 hears from the database that node-1 has renewed its lease: no fence
look
> node-0 serves partition 1
> node-1 serves partition 0
