import Testing

@testable import Simulator

@Suite("Swarms of simulated clusters")
struct SwarmTests {
    @Test("keep every promise, seed by seed", arguments: UInt64(1)...24)
    func promises(seed: UInt64) {
        let draw = SwarmDraw(seed: seed)
        let violations = ClusterSimulation(draw.options).run().violations
        #expect(violations.isEmpty, "seed \(seed) draws \(draw): \(violations.prefix(5))")
    }

    /// Draws that once broke a promise, shrunk as far as they could be.
    @Test(
        "stay clean where a bug was",
        arguments: [
            // A device that came back skipped a message that an undurable loss had taken out of the log.
            (
                519,
                "nodes 7, partitions 2, loops 3, devices 22, topics 3, seconds 6, pause-ms 862, body-bytes 1500,"
                    + " bursts-per-mille 6, burst-size 884, companions-per-mille 1000, crash 1,"
                    + " fault-gap-ms 2212, write-ms 400, latency-us 27035, full-streams 9, outbox-bytes 912,"
                    + " snapshot-bytes 107, bookkeeping-ms 30, outbox-retry-ms 104"
            ),
            // A lost confirmation filled the window for good, where the window was one frame.
            (
                896,
                "nodes 9, partitions 2, databases 2, devices 18, topics 3, seconds 19, pause-ms 390,"
                    + " body-bytes 10, burst-size 1, companions-per-mille 1000, crash 1, reset 1, cut 1,"
                    + " blindness 1, fault-gap-ms 834, unknown 530, write-ms 50, latency-us 6191,"
                    + " entry-bytes 246, offer-bytes 2, push-window 1, waiting-bytes 100, snapshot-bytes 204,"
                    + " bookkeeping-ms 3, outbox-retry-ms 61"
            ),
            // The bound of fan-outs refused one copy of a send, and another copy was accepted.
            (
                1669,
                "nodes 2, partitions 2, loops 2, devices 29, topics 2, seconds 5, pause-ms 219, burst-size 1,"
                    + " companions-per-mille 0, fanouts 8, sleep 1, fault-gap-ms 3450, refused 5,"
                    + " write-ms 50, latency-us 18, full-streams 172, entry-bytes 440, outbox-window 2,"
                    + " outbox-bytes 200, snapshot-bytes 102"
            ),
            // A topic partition received a part of the entry of a device's end, and the next owner made the
            // entry in another order.
            (
                8681,
                "nodes 9, partitions 1, devices 2, topics 16, seconds 1, pause-ms 19, burst-size 1,"
                    + " companions-per-mille 0, unregister-per-mille 37, clockStops 1, refused 1,"
                    + " write-ms 50, latency-us 48, lost-datagrams 6, failed-calls 377, full-streams 66,"
                    + " record-bytes 1, records-in-flight 4, snapshot-bytes 102"
            ),
            // A partition told a loss before earlier messages whose bodies it still had to read.
            (
                8978,
                "nodes 8, partitions 3, databases 3, devices 23, seconds 7, pause-ms 151, body-bytes 1500,"
                    + " burst-size 1, companions-per-mille 30, slowLinks 1, fault-gap-ms 10367, refused 8,"
                    + " unknown 169, entry-bytes 2070, outbox-bytes 5077, waiting-bytes 200000,"
                    + " snapshot-bytes 1912, bookkeeping-ms 58, outbox-retry-ms 68"
            ),
            // The appender refused a row past the bound of waiting rows. The loop threw the machine away and
            // answered 503 to a send whose record was in flight, and the message came.
            (
                24,
                "nodes 1, partitions 1, loops 2, topics 1, seconds 25, pause-ms 700, body-bytes 1500,"
                    + " burst-size 434, companions-per-mille 500, poison 0, silentCrash 1, databaseAway 1,"
                    + " stalledConnection 1, fault-gap-ms 2718, refused 9, stalls 13, stall-ms 18,"
                    + " latency-us 3623, lost-datagrams 328, full-streams 352, record-bytes 3499,"
                    + " entry-bytes 85, outbox-window 62, offer-bytes 12206, snapshot-bytes 245,"
                    + " bookkeeping-ms 1, outbox-retry-ms 491, batch-bytes 1, journal-rows 1,"
                    + " journal-bytes 13, refusal-retry-min-ms 3, refusal-retry-soon-ms 1"
            ),
            // A superseded process that did not hear of it granted tokens beside its heir.
            (
                1_000_335,
                "nodes 1, partitions 11, loops 3, databases 3, projects 2, devices 22, topics 6,"
                    + " seconds 6, pause-ms 814, burst-size 1, tight 1, stalledConnection 1,"
                    + " supersession 1, unknown 197, full-streams 9, snapshot-bytes 100,"
                    + " snapshot-slice-bytes 234, quota-tick-ms 12, lease-polls 5"
            ),
            // A gateway takes one operation at a time: the simulation stopped asking while its own questions
            // paused.
            (
                31673,
                "nodes 1, partitions 1, projects 3, devices 1, topics 19, seconds 1, burst-size 1,"
                    + " failed-calls 10, operations 1"
            ),
            // A node that found itself slow probed so seldom that it took its own silence for a cut.
            (
                70549,
                "nodes 2, partitions 2, devices 1, topics 1, seconds 10, burst-size 1, resetAll 1,"
                    + " fault-gap-ms 905, probe-ms 429, ack 1000, isolation-ms 208, doubts-ms 130"
            ),
            // Two nodes that had been cut from each other forgot each other for good.
            (
                70550,
                "nodes 2, partitions 3, databases 3, devices 3, topics 6, seconds 5, pause-ms 410,"
                    + " burst-size 1, companions-per-mille 1000, leave 1, resetAll 1, blindness 1,"
                    + " slowLinks 1, clockLeaps 1, fault-gap-ms 2959, unknown 74, stalls 4, write-ms 400,"
                    + " lost-datagrams 125, entry-bytes 13, doubt-pause-min-ms 1, quota-wait-ms 184,"
                    + " silence-ms 50, standstill 1, shareless-ms 505, ack 96, helpers 6, healing-ms 54,"
                    + " sync-ms 733, dead-for-ms 1000"
            ),
            // Sends at which no owner had looked were in doubt.
            (
                30147,
                "nodes 3, partitions 6, loops 2, projects 3, devices 21, topics 12, seconds 6, pause-ms 188,"
                    + " burst-size 1, companions-per-mille 500, tight 1, supersession 1,"
                    + " fault-gap-ms 13033, write-ms 400, latency-us 997, lost-datagrams 335,"
                    + " failed-calls 395, full-streams 5, entry-bytes 17, snapshot-bytes 131,"
                    + " bookkeeping-ms 9, outbox-retry-ms 62, operations 3, deadline-ms 5426,"
                    + " moved-retry-max-ms 111, silence-ms 114, link-wait-ms 218, snapshot-slice-bytes 9,"
                    + " snapshot-part-bytes 130, device-hour 1, quota-lease-ms 24, lease-polls 5,"
                    + " probe-ms 173, healing-ms 5000, sync-ms 505"
            ),
            // Operations that waited for quota went on before the operation that brought the tokens was
            // counted.
            (
                105_658,
                "nodes 2, partitions 1, devices 9, topics 1, seconds 5, burst-size 1, refused 15,"
                    + " unknown 14, latency-us 28666, failed-calls 7, operations 2,"
                    + " unreachable-pause-ms 2, share-min 2, quota-lease-ms 6"
            ),
            // A node whose database was away for a moment tried its renewal again only after the usual time.
            (
                623_683,
                "nodes 3, partitions 7, devices 17, topics 13, seconds 23, pause-ms 1138,"
                    + " body-bytes 4096, burst-size 1, companions-per-mille 1000, crash 1, reset 1,"
                    + " isolation 1, databaseAway 1, stalledConnection 1, supersession 1, clockLeaps 1,"
                    + " clockDrifts 1, fault-gap-ms 3428, unknown 64, latency-us 7520, lost-datagrams 6,"
                    + " failed-calls 4, snapshot-bytes 101, bookkeeping-ms 399, outbox-retry-ms 100,"
                    + " refusal-retry-min-ms 1, quota-waiters 8, moved-retry-max-ms 2,"
                    + " unreachable-pause-ms 5, ping-ms 208, backoff-min-ms 31, backoff-max-ms 19,"
                    + " standstill 1, snapshot-slice-bytes 5, snapshot-pause-us 398, topics-max 5,"
                    + " quota-lease-ms 158, quota-share-ms 57, quota-inflow-ms 7, quota-tick-ms 9,"
                    + " quota-patience-ms 84, poll-ms 216, probe-ms 107, ack 54, helpers 2,"
                    + " suspicion-alone-ms 41, isolation-ms 215, healing-ms 54, sync-ms 521, health-max"
                    + " 0"
            ),
            // The meter charged to the heir's bucket the tokens that a machine had spent while it stood
            // still.
            (
                621_927,
                "nodes 2, loops 4, projects 2, devices 22, topics 15, seconds 12, pause-ms 676,"
                    + " body-bytes 1500, burst-size 1, companions-per-mille 1000, tight 1, reset 1, cut"
                    + " 1, clockDrifts 1, fault-gap-ms 2824, stalls 12, latency-us 100000, full-streams"
                    + " 1, snapshot-bytes 115, bookkeeping-ms 3, silence-ms 54, frame-bytes 3,"
                    + " unreachable-pause-ms 33, connect-ms 106, standstill 1, snapshot-slice-bytes"
                    + " 10868, topics-max 3, registrations 1, quota-lease-ms 242, quota-share-ms 2,"
                    + " isolation-ms 642, healing-ms 59, replayed-datagrams 10"
            ),
            // A partition applied a frame longer than its bound for waiting frames by a record or two a
            // second.
            (
                9_004_632,
                "nodes 1, partitions 3, loops 2, projects 2, devices 28, topics 2, seconds 18, pause-ms 219,"
                    + " burst-size 1, failed-calls 2, record-bytes 13, records-in-flight 1,"
                    + " deferred-bytes 1312, snapshot-pause-us 0"
            ),
            // A machine that stood still got tokens for which it had asked before.
            (
                5_001_964,
                "nodes 6, partitions 7, databases 2, devices 20, topics 1, seconds 11, pause-ms 4684,"
                    + " burst-size 1, reset 1, cut 1, databaseAway 1, slowLinks 1, supersession 1,"
                    + " fault-gap-ms 815, latency-us 32375, lost-datagrams 31, frame-bytes 3,"
                    + " link-silence-ms 2012, standstill 1, registrations 2, quota-retry-span-ms 3,"
                    + " probe-ms 157, suspicion-alone-ms 41, sync-ms 506, tellings 1, packet-bytes 300,"
                    + " replayed-datagrams 9"
            ),
            // A node fell asleep with a fence under way, and when it woke the fence hit a node that had long
            // renewed its lease.
            (
                11_001_168,
                "partitions 16, loops 4, databases 3, projects 2, devices 2, topics 9, seconds 24,"
                    + " pause-ms 53, burst-size 1, sleep 1, blindness 1, stalledConnection 1, slowLinks 1,"
                    + " supersession 1, clockStops 1, fault-gap-ms 703, write-ms 400, latency-us 23,"
                    + " lost-datagrams 459, bookkeeping-ms 949, outbox-retry-ms 78, moved-retry-min-ms 1,"
                    + " ping-ms 177, link-silence-ms 4592, connect-ms 290, link-wait-ms 119, standstill 1,"
                    + " quota-share-ms 216, leases-alone 4, tables-ms 189, helpers 2, suspicion-ms 0,"
                    + " confirmations 0, isolation-ms 707, healing-ms 2649, replayed-datagrams 9"
            ),
        ] as [(UInt64, String)])
    func former(seed: UInt64, line: String) throws {
        let draw = try #require(SwarmDraw(seed: seed, line))
        let violations = ClusterSimulation(draw.options).run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    @Test("are drawn the same twice, and read back from their line")
    func lines() throws {
        for seed in UInt64(1)...50 {
            let draw = SwarmDraw(seed: seed)
            #expect(draw.description == SwarmDraw(seed: seed).description)
            let read = try #require(SwarmDraw(seed: seed, draw.description))
            #expect(read.description == draw.description)
        }
        #expect(SwarmDraw(seed: 1, "nodes") == nil)
        #expect(SwarmDraw(seed: 1, "nodes many") == nil)
        #expect(SwarmDraw(seed: 1, "noses 3") == nil)
    }

    /// Some seeds draw each trait plain, and others do not.
    @Test("draw everything, and nothing always")
    func variety() {
        let draws = (UInt64(1)...400).map { SwarmDraw(seed: $0) }
        for index in draws[0].traits.indices {
            let drawn = draws.count { !$0.traits[index].isPlain }
            #expect(drawn > 20, "\(draws[0].traits[index].name) is drawn by \(drawn) of 400 seeds")
        }
    }

    @Test("shrink to a draw that still fails")
    func shrinking() throws {
        let line = "nodes 3, devices 6, seconds 6, pause-ms 200, crash 1, slowLinks 1, fault-gap-ms 600"
        let draw = try #require(SwarmDraw(seed: 3, line))
        let smallest = draw.shrunk({ _ in }) { options in
            options.seconds > 2 ? ["a run of more than two seconds"] : []
        }
        #expect(smallest.description == "nodes 1, partitions 1, devices 1, topics 1, seconds 3, burst-size 1")
    }
}
