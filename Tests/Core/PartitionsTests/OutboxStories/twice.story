# Each message between the two comes twice. The receiver applies an entry once, and answers each copy with its durable mark.
phone registers
watch registers
messages come twice
phone subscribes to news
run 100ms
> 0.001 s  the device partition writes record 4: phone subscribes to news
> 0.006 s  the database has record 4 of the device partition
> 0.006 s  the device partition offers entry 4 to the topic partition: phone joins news
> 0.007 s  the topic partition writes record 2: entry 4 of the device partition is applied
> 0.007 s  the topic partition tells the device partition: no entry is applied here
> 0.012 s  the database has record 2 of the topic partition
> 0.012 s  the topic partition tells the device partition: all up to entry 4 is applied here
> 0.013 s  the device partition answers phone: done
backend sends m1 to news
run 100ms
> 0.101 s  the topic partition writes record 3: m1 is accepted for news
> 0.106 s  the database has record 3 of the topic partition
> 0.106 s  the topic partition answers the backend: accepted
> 0.106 s  the topic partition offers entry 3 to the device partition: m1 for phone
> 0.107 s  the device partition writes record 5: the topic partition has applied all up to entry 4; entry 3 of the topic partition is applied
> 0.107 s  the device partition tells the topic partition: no entry is applied here
> 0.112 s  the database has record 5 of the device partition
> 0.112 s  the device partition tells the topic partition: all up to entry 3 is applied here
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: phone
> the device partition keeps for phone: m1
