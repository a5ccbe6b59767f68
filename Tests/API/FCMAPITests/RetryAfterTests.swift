import Routing
import Testing

@testable import FCMAPI

@Suite("An answer of 503") struct RetryAfterTests {
    @Test("instead of a stream says when to come back")
    func stream() {
        let api = APIHarness().api
        let response = api.refuseStream(.unavailable("a bound"), isEventSource: false)
        #expect(response.status == 503)
        #expect(response.fields.contains { $0.name == "retry-after" && $0.value == "1" })
        #expect(
            !api.refuseStream(.unregistered, isEventSource: false).fields.contains {
                $0.name == "retry-after"
            })
    }
}
