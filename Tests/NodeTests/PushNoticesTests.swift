import Logging
import Model
import NodeCore
import PushDesk
import PushMessages
import Synchronization
import Testing

@testable import Node

@Suite("What operators hear of push services") struct PushNoticesTests {
    private let counters = PushCounters()
    private var notices: PushNotices {
        PushNotices(Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, counters)
    }

    private func alarms(_ kind: Transport.Kind) -> [PushAlarm: Int] {
        var counts: [PushAlarm: Int] = [:]
        for alarm in PushAlarm.allCases { counts[alarm] = counters.count(kind, alarm) }
        return counts.filter { $0.value > 0 }
    }

    @Test("raises one alarm for each refused key, whichever the service", arguments: Transport.Kind.allCases)
    func credentials(kind: Transport.Kind) {
        let ticket = PushTicket(loop: 0, number: 1, kind: kind, project: ProjectNumber(5), host: "h")
        for outcome in [
            PushOutcome.accepted, .gone, .refusedContent("no"), .throttled(retryAfterSeconds: nil),
            .overQuota(retryAfterSeconds: nil), .transient(retryAfterSeconds: nil), .unsent("no"), .expired,
        ] {
            notices.tell(outcome, ticket)
        }
        #expect(alarms(kind).isEmpty)
        for _ in 0..<3 { notices.tell(.credentials("no"), ticket) }
        #expect(alarms(kind) == [.credentials: 3])
        for other in Transport.Kind.allCases where other != kind { #expect(alarms(other).isEmpty) }
    }

    @Test("raises no alarm for a key that the operator has changed since the message left")
    func formerKey() {
        let ticket = PushTicket(loop: 0, number: 1, kind: .apns, project: ProjectNumber(5), host: "h")
        notices.tell(.credentials("the former key"), ticket, isFormer: true)
        #expect(alarms(.apns).isEmpty)
    }

    @Test("shows what all loops have for a service, and of each loop the newest")
    func loads() {
        var (one, two) = (PushLoad(), PushLoad())
        (one.waiting, one.underWay, two.underWay, two.paused) = (3, 4, 5, 1)
        counters.note([.web: one, .apns: two], of: 0)
        counters.note([.web: two], of: 1)
        #expect(counters.load(.web).waiting == 3 && counters.load(.web).underWay == 9)
        #expect(counters.load(.web).paused == 1 && counters.load(.fcm) == PushLoad())
        counters.note([:], of: 0)
        #expect(counters.load(.web) == two && counters.load(.apns) == PushLoad())
    }

    @Test("are a few lines for a project whose endpoints are at hundreds of invented names")
    func inventedNames() {
        let lines = Lines()
        let notices = PushNotices(Logger(label: "test") { _ in LineCounter(lines: lines) }, counters)
        for project in [UInt32(5), 6] {
            for number in 0..<300 {
                let ticket = PushTicket(
                    loop: 0, number: 1, kind: .web, project: ProjectNumber(project),
                    host: "w\(number).example.com")
                notices.unreached(.web, at: ticket.host, for: ticket.project, because: "no such name")
                notices.tell(.unsent("no such name"), ticket)
            }
        }
        #expect(lines.count.load(ordering: .relaxed) == 16)
    }

    @Test("raises no alarm for a service that the project does not use")
    func noSettings() {
        for kind in Transport.Kind.allCases {
            let ticket = PushTicket(loop: 0, number: 1, kind: kind, project: ProjectNumber(5), host: "h")
            notices.tell(.unset("off"), ticket)
            #expect(alarms(kind).isEmpty)
        }
    }
}

private final class Lines: Sendable { let count = Atomic(0) }

private struct LineCounter: LogHandler {
    let lines: Lines
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }
    func log(event: LogEvent) { lines.count.add(1, ordering: .relaxed) }
}
