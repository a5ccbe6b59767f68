/// Counts the frames with which an HTTP/2 client costs the server work and asks for nothing, and says when
/// there are too many.
///
/// libnghttp2 stops some floods by itself (CONTINUATION, rapid resets, acknowledgements that are not read),
/// but lets these through. The guard counts in windows of 30 s. A client within the bounds notices nothing.
/// The caller gives the time.
struct AbuseGuard {
    static let windowSeconds = 30

    /// The kinds of frames, each with a bound for one window.
    enum Kind: Int, CaseIterable {
        /// PING and SETTINGS, which the server must answer, and GOAWAY.
        case control
        /// Invalid frames, and streams that the server had to reset (CVE-2025-8671, "MadeYouReset").
        case fault
        /// Streams that the server refused because too many bytes of answers wait on the connection.
        case refusal
        /// PRIORITY, which this server ignores.
        case priority
        /// DATA without bytes, or of padding only, that does not end its stream.
        case emptyData
        /// WINDOW_UPDATE. One for each frame of the server is usual, hundreds for each are not.
        case windowUpdate
        /// Frames of types that this server does not know.
        case unknown

        var max: Int {
            switch self {
            case .control: 200
            case .fault: 200
            case .refusal: 5000
            case .priority: 500
            case .emptyData: 200
            case .windowUpdate: 2000
            case .unknown: 200
            }
        }
    }

    private var counts = [Int](repeating: 0, count: Kind.allCases.count)
    private var windowStart = 0
    /// Frames that the server sent in the window. The client may answer each with two window updates.
    private var sent = 0

    /// Counts one frame. Returns false if the connection must be closed.
    mutating func admits(_ kind: Kind, second: Int) -> Bool {
        roll(second)
        counts[kind.rawValue] += 1
        let allowance = kind == .windowUpdate ? kind.max + sent * 2 : kind.max
        return counts[kind.rawValue] <= allowance
    }

    mutating func noteSent(second: Int) {
        roll(second)
        sent += 1
    }

    private mutating func roll(_ second: Int) {
        guard second - windowStart >= AbuseGuard.windowSeconds else { return }
        windowStart = second
        sent = 0
        for index in counts.indices { counts[index] = 0 }
    }
}
