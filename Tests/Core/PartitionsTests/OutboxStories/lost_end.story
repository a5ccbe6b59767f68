# The database of the topic partition loses its end: an acknowledged entry is gone. In the new generation the two compare what they have.
databases 2
phone registers
phone subscribes to news
run 2s unseen
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: phone
journal of topic partition loses 1
generation rises
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: nothing
run 3s
> 2.000 s  the device partition asks the topic partition how far it is, in generation 1
> 2.000 s  the topic partition asks the device partition how far it is, in generation 1
> 2.001 s  the topic partition writes record 3: generation 1 begins; of the device partition in generation 1, all up to entry 3 is applied
> 2.001 s  the device partition writes record 6: generation 1 begins; of the topic partition in generation 1, all up to entry 0 is applied
> 2.006 s  the database has record 3 of the topic partition
> 2.006 s  the topic partition tells the device partition: all up to entry 3 is applied here
> 2.006 s  the database has record 6 of the device partition
> 2.006 s  the device partition tells the topic partition: no entry is applied here
> 2.007 s  the device partition sees by the fingerprint that the topic partition has other members
> 2.007 s  the device partition writes record 7: the topic partition is to have exactly these members: phone in news; all pairs of generation 1 are compared; the topic partition has applied all up to entry 3
> 2.012 s  the database has record 7 of the device partition
> 2.012 s  the device partition offers entry 7 to the topic partition: exactly these members: phone in news
> 2.013 s  the topic partition writes record 4: all pairs of generation 1 are compared; entry 7 of the device partition is applied
> 2.018 s  the database has record 4 of the topic partition
> 2.018 s  the topic partition tells the device partition: all up to entry 7 is applied here
> 3.019 s  the device partition writes record 8: the topic partition has applied all up to entry 7
> 3.024 s  the database has record 8 of the device partition
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: phone
