import Logging
import Model
import PushMessages
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

    @Test("raises no alarm for a service that the project does not use")
    func noSettings() {
        for kind in Transport.Kind.allCases {
            notices.noSettings(ProjectNumber(5), kind, "off")
            #expect(alarms(kind).isEmpty)
        }
    }
}
