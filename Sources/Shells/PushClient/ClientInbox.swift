import CCurl
import Synchronization

/// libcurl's multi handle, as it may be seen from other threads than the client's.
///
/// Safe: libcurl allows `curl_multi_wakeup` from any thread (curl_multi_wakeup(3)), and `ClientInbox` calls
/// no other function with it and holds its lock meanwhile, so that the thread cannot free the handle.
struct MultiHandle: @unchecked Sendable {
    let raw: UnsafeMutableRawPointer

    init() throws(PushClientError) {
        guard let raw = curl_multi_init() else {
            throw PushClientError(description: "libcurl gives no multi handle")
        }
        self.raw = raw
    }
}

/// What other threads hand to the client's thread.
final class ClientInbox: Sendable {
    private struct Content {
        var requests: [PushHTTPRequest] = []
        var isStopping = false
        /// The handle that the thread waits on; `nil` after the end.
        var multi: MultiHandle?
    }

    private let content: Mutex<Content>

    init(_ multi: MultiHandle) { content = Mutex(Content(multi: multi)) }

    /// False if the thread has ended: then nobody takes the requests.
    func post(_ requests: [PushHTTPRequest]) -> Bool {
        content.withLock { content in
            guard let multi = content.multi else { return false }
            content.requests += requests
            curl_multi_wakeup(multi.raw)
            return true
        }
    }

    func stop() {
        content.withLock { content in
            content.isStopping = true
            if let multi = content.multi { curl_multi_wakeup(multi.raw) }
        }
    }

    func drain() -> (requests: [PushHTTPRequest], isStopping: Bool) {
        content.withLock { content in
            defer { content.requests = [] }
            return (content.requests, content.isStopping)
        }
    }

    /// The thread waits on another handle from now on; `nil` at its end. Returns the requests that came
    /// meanwhile.
    func use(_ multi: MultiHandle?) -> [PushHTTPRequest] {
        content.withLock { content in
            content.multi = multi
            guard multi == nil else { return [] }
            defer { content.requests = [] }
            return content.requests
        }
    }
}
