# The topic partition has no owner for a while. The device partition offers the entry again until there is one.
phone registers
owner of topic partition dies
phone subscribes to news
run 1500ms
> 0.001 s  the device partition writes record 3: phone subscribes to news
> 0.006 s  the database has record 3 of the device partition
> 0.006 s  the device partition offers entry 3 to the topic partition: phone joins news
> 0.007 s  the topic partition has no owner: the message is lost
> 1.006 s  the device partition offers entry 3 to the topic partition: phone joins news
> 1.007 s  the topic partition has no owner: the message is lost
owner of topic partition begins
run 2s
> 2.006 s  the device partition offers entry 3 to the topic partition: phone joins news
> 2.007 s  the topic partition writes record 3: entry 3 of the device partition is applied
> 2.012 s  the database has record 3 of the topic partition
> 2.012 s  the topic partition tells the device partition: all up to entry 3 is applied here
> 2.013 s  the device partition answers phone: done
> 3.013 s  the device partition writes record 4: the topic partition has applied all up to entry 3
> 3.018 s  the database has record 4 of the device partition
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: phone
