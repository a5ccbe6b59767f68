import Model
import Testing

@testable import Partitions
@testable import Routing

/// A partition has no owner for a while, and then it has one. The real router asks, and the owner knows
/// repeats by the window in its state.
@Suite("Sends that wait for a partition at a takeover")
struct TakeoverTests {
    private let harness = TakeoverHarness()

    private final class TakeoverHarness {
        let routing = RouterHarness(isClustered: true, partitionCount: 1)
        var window = DeduplicationWindow()
        var isServed = false
        /// Whether the owner answers no request at all.
        var isSilent = false
        /// Whether the owner refuses every request.
        var isRefusing = false
        var accepted: [UInt64: Int] = [:]
        var outcomes: [String: Int] {
            #expect(routing.finishCount == routing.finished.count, "a send is answered once")
            return routing.finished.values.reduce(into: [:]) { counts, outcome in
                switch outcome {
                case .accepted: counts["accepted", default: 0] += 1
                case .refused(let refusal): counts["\(refusal)", default: 0] += 1
                default: counts["else", default: 0] += 1
                }
            }
        }

        func submit(_ message: UInt64) {
            let envelope = Envelope(
                id: MessageID(time: message, random: 1), event: [], sent: routing.now.wall, ttlSeconds: 60)
            let target = Send.Target.topic(TopicName(checked: Array("news".utf8)))
            routing.submit(
                .send(
                    Send(project: routing.project, target: target, message: envelope, validateOnly: false)),
                ticket: message)
            answer()
        }

        func reroute() {
            routing.reroute()
            answer()
        }

        func pass(milliseconds: UInt64) {
            for _ in 0..<milliseconds {
                routing.tick()
                answer()
            }
        }

        private func answer() {
            while !routing.asked.isEmpty {
                let (_, id, request) = routing.asked.removeFirst()
                guard !isSilent, case .sendToTopic(let key?, _, _, let message, _) = request else { continue }
                var reply = Reply.refused(.moved)
                if isRefusing {
                    reply = .refused(.unavailable("away"))
                } else if isServed {
                    switch window.verdict(key.number) {
                    case .new:
                        window.insert(key.number)
                        accepted[message.id.time, default: 0] += 1
                        reply = .accepted(message.id)
                    case .repeated: reply = .accepted(message.id)
                    case .tooOld: reply = .refused(.unknown)
                    }
                }
                routing.reply(reply, to: id)
            }
        }
    }

    @Test("are all answered", arguments: [1000, 1500, 3000, 6000])
    func waiting(count: UInt64) {
        for message in 1...count {
            harness.submit(message)
            if message % 10 == 0 { harness.pass(milliseconds: 1) }
        }
        harness.pass(milliseconds: 300)
        harness.isServed = true
        // Other sends come while the first ones are under way.
        for message in count + 1...count + 200 {
            harness.submit(message)
            harness.pass(milliseconds: 1)
        }
        harness.pass(milliseconds: 3000)
        #expect(harness.outcomes == ["accepted": Int(count) + 200])
        #expect(harness.accepted.count == Int(count) + 200)
        #expect(harness.accepted.values.allSatisfy { $0 == 1 })
    }

    @Test("are told to try again where nobody serves it in time: nobody has looked at them")
    func nobodyServes() {
        for message in UInt64(1)...50 { harness.submit(message) }
        harness.pass(milliseconds: 27_000)
        #expect(harness.accepted.isEmpty)
        #expect(harness.outcomes == ["unavailable(\"no owner answered in time\")": 50])
    }

    @Test("are told to try again where this process slept past their time: nobody has looked at them")
    func sleptMeanwhile() {
        for message in UInt64(1)...5 { harness.submit(message) }
        harness.routing.now.monotonic = harness.routing.now.monotonic.advanced(by: .seconds(60))
        harness.isServed = true
        harness.pass(milliseconds: 10)
        #expect(harness.accepted.isEmpty)
        #expect(harness.outcomes == ["unavailable(\"no owner answered in time\")": 5])
    }

    @Test("keep the numbers of those of which nobody knows whether they are in")
    func inDoubt() {
        // The former owner got these sends and died. Half of them are in its journal.
        harness.isServed = true
        harness.isSilent = true
        for message in UInt64(1)...500 { harness.submit(message) }
        for number in UInt64(1)...250 {
            harness.window.insert(number)
            harness.accepted[number, default: 0] += 1
        }
        harness.isSilent = false
        harness.isServed = false
        harness.reroute()
        for message in UInt64(501)...4000 {
            harness.submit(message)
            if message % 10 == 0 { harness.pass(milliseconds: 1) }
        }
        harness.isServed = true
        for message in UInt64(4001)...4200 {
            harness.submit(message)
            harness.pass(milliseconds: 1)
        }
        harness.pass(milliseconds: 3000)
        #expect(harness.outcomes == ["accepted": 4200])
        #expect(harness.accepted.count == 4200)
        #expect(harness.accepted.values.allSatisfy { $0 == 1 })
    }

    @Test("hold up nobody behind them while the owner refuses")
    func refused() {
        // These sends are in doubt when the owner begins to refuse.
        harness.isServed = true
        harness.isSilent = true
        for message in UInt64(1)...3 { harness.submit(message) }
        harness.isSilent = false
        harness.isRefusing = true
        harness.reroute()
        harness.pass(milliseconds: 500)
        for message in UInt64(4)...2003 { harness.submit(message) }
        #expect(harness.outcomes == ["unavailable(\"away\")": 2000])
        harness.pass(milliseconds: 500)
        // Sends that wait for an owner hear the refusal as soon as there is an owner.
        harness.isRefusing = false
        harness.isServed = false
        harness.pass(milliseconds: 300)
        for message in UInt64(2004)...5003 { harness.submit(message) }
        #expect(harness.outcomes == ["unavailable(\"away\")": 2000])
        harness.isRefusing = true
        harness.pass(milliseconds: 300)
        #expect(harness.outcomes == ["unavailable(\"away\")": 5000])
        harness.isRefusing = false
        harness.isServed = true
        harness.pass(milliseconds: 300)
        harness.submit(5004)
        #expect(harness.outcomes == ["unavailable(\"away\")": 5000, "accepted": 4])
        #expect(harness.accepted.values.allSatisfy { $0 == 1 })
    }
}
