import CCurl
import Glibc
import Model
import PushScheduling

/// The client's thread: takes requests, begins them, lets libcurl work, and hands answers on. Lives on that
/// thread only.
final class Worker {
    /// Requests that begin between two turns of libcurl. Each may cost an encryption and a signature, and
    /// the requests under way wait meanwhile.
    static let begunAtOnceMax = 32
    /// Transfers that are kept for later requests.
    static let keptTransfersMax = 64
    /// How long the thread waits at most, in ms, while requests are under way. libcurl (7.88 at least) now
    /// and then forgets the end of a stream while other requests wait for a stream of the connection. The
    /// next call of `curl_multi_perform` finds the end.
    static let workMilliseconds: UInt64 = 20
    /// How often, in ms, the thread looks for requests and answers that have taken too long.
    static let lookMilliseconds: UInt64 = 250

    private let inbox: ClientInbox
    private let settings: PushClientSettings
    private let onAnswer: ([PushHTTPAnswer]) -> Void
    private var multi: MultiHandle
    private var queue: OriginQueue<PushHTTPRequest>
    private var running: [UnsafeMutableRawPointer: Transfer] = [:]
    private var spare: [Transfer] = []
    private var answers: [PushHTTPAnswer] = []
    private var now = Worker.time
    /// When the client last had a request; `nil` if it has had none since all connections were closed.
    private var busyAt: MonotonicTime?
    private var lookedAt = Worker.time

    init(
        _ multi: MultiHandle, inbox: ClientInbox, settings: PushClientSettings,
        onAnswer: @escaping ([PushHTTPAnswer]) -> Void
    ) {
        self.multi = multi
        self.inbox = inbox
        self.settings = settings
        self.onAnswer = onAnswer
        queue = OriginQueue(
            allMax: settings.transfersMax, perOriginMax: settings.transfersPerOriginMax,
            waitingMax: settings.waitingMax,
            waitMax: .milliseconds(UInt64(settings.waitMilliseconds)))
        prepare(multi)
    }

    func run() {
        while true {
            let (requests, isStopping) = inbox.drain()
            if isStopping {
                end(requests)
                return
            }
            now = Worker.time
            for request in requests { accept(request) }
            startRequests()
            work()
            look()
            deliver()
            wait()
        }
    }

    private func prepare(_ multi: MultiHandle) {
        let settings = [
            (CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX)),
            (CURLMOPT_MAX_TOTAL_CONNECTIONS, settings.connectionsMax),
            (CURLMOPT_MAXCONNECTS, settings.connectionsMax),
            (CURLMOPT_MAX_HOST_CONNECTIONS, settings.connectionsPerOriginMax),
            (CURLMOPT_MAX_CONCURRENT_STREAMS, settings.transfersPerOriginMax),
        ]
        for (option, value) in settings {
            let code = tidecast_curl_multi_set_long(multi.raw, option, value)
            precondition(code == CURLM_OK, "libcurl has no option \(option.rawValue)")
        }
    }

    private func accept(_ request: PushHTTPRequest) {
        switch Origin.read(request.url) {
        case .failure(let error): answers.append(request.failed(error.description, mayHaveArrived: false))
        case .success(let origin):
            guard !queue.add(request, of: request.share, to: origin, now: now) else { return }
            answers.append(request.notTried("too many requests wait"))
        }
    }

    private func startRequests() {
        var begun = 0
        while begun < Worker.begunAtOnceMax, let (request, key) = queue.next(now: now) {
            begun += 1
            do {
                try start(request, key)
                busyAt = now
            } catch {
                queue.ended(key, isAnswered: nil, now: now)
                answers.append(PushHTTPAnswer(number: request.number, result: .notPrepared(error)))
            }
        }
        for request in queue.takeLate() { answers.append(request.notTried(tooLate)) }
    }

    private func start(_ request: PushHTTPRequest, _ key: OriginQueue<PushHTTPRequest>.Key) throws {
        let transfer: Transfer
        let isSystems = request.caPEM == nil
        if let kept = spare.lastIndex(where: { $0.trustsSystem == isSystems }) {
            transfer = spare.remove(at: kept)
        } else {
            transfer = try Transfer(trustsSystem: isSystems, settings: settings)
        }
        do {
            try transfer.load(request, key: key)
            guard curl_multi_add_handle(multi.raw, transfer.easy) == CURLM_OK else {
                throw PushClientError(description: "libcurl takes no further request")
            }
        } catch {
            keep(transfer)
            throw error
        }
        running[transfer.easy] = transfer
    }

    /// Keeps a transfer for a later request.
    private func keep(_ transfer: Transfer) {
        transfer.clear()
        if spare.count < Worker.keptTransfersMax { spare.append(transfer) }
    }

    /// Lets libcurl send and receive what it can, and collects the transfers that are done.
    private func work() {
        guard !running.isEmpty else { return }
        var count: Int32 = 0
        let code = curl_multi_perform(multi.raw, &count)
        if code != CURLM_OK {
            // Only memory that runs out, or a mistake of this code, brings libcurl here.
            renew(failing: "libcurl failed: \(String(cString: curl_multi_strerror(code)))")
        }
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi.raw, &left) {
            guard message.pointee.msg == CURLMSG_DONE,
                let easy = message.pointee.easy_handle, let transfer = running.removeValue(forKey: easy)
            else { continue }
            // The message is gone with the handle.
            let code = tidecast_curl_result(message)
            curl_multi_remove_handle(multi.raw, easy)
            finish(transfer, transfer.result(code))
        }
    }

    private func finish(_ transfer: Transfer, _ result: PushHTTPAnswer.Result) {
        let isAnswered: Bool? =
            switch result {
            case .answered: true
            case .notPrepared, .notTried: nil
            case .failed: false
            }
        queue.ended(transfer.key, isAnswered: isAnswered, now: now)
        answers.append(PushHTTPAnswer(number: transfer.number, result: result))
        busyAt = now
        keep(transfer)
    }

    /// Fails the requests that wait for too long, and closes the connections of a client that is idle.
    private func look() {
        if running.isEmpty, queue.waiting == 0, let busyAt, now.since(busyAt) >= idle {
            renew(failing: "the client was idle")
        }
        guard now.since(lookedAt) >= .milliseconds(Worker.lookMilliseconds) else { return }
        lookedAt = now
        finishCutAnswers()
        guard queue.waiting > 0 else { return }
        for request in queue.expire(now: now) { answers.append(request.notTried(tooLate)) }
    }

    private var tooLate: String { "the request waited for \(settings.waitMilliseconds) ms" }

    /// Ends the transfers whose answer has stopped behind its header block. The status is there, so they are
    /// answered. Up to libcurl 7.88 at least, this is also how a transfer ends whose stream's end libcurl has
    /// forgotten: some tens of a million requests at 15,000 a second.
    private func finishCutAnswers() {
        let rest = TimeSpan.milliseconds(UInt64(settings.answerRestMilliseconds))
        for (easy, transfer) in running where transfer.isCut(now, after: rest) {
            running[easy] = nil
            curl_multi_remove_handle(multi.raw, easy)
            finish(transfer, transfer.result("the answer was cut"))
        }
    }

    private var idle: TimeSpan { .seconds(UInt64(settings.idleSeconds)) }

    /// Closes all connections. libcurl closes them with the handle that has them.
    private func renew(failing reason: String) {
        failRunning(reason)
        busyAt = nil
        guard let next = try? MultiHandle() else { return }
        prepare(next)
        _ = inbox.use(next)
        curl_multi_cleanup(multi.raw)
        multi = next
    }

    private func failRunning(_ reason: String) {
        for (easy, transfer) in running {
            curl_multi_remove_handle(multi.raw, easy)
            finish(transfer, transfer.result(reason))
        }
        running = [:]
    }

    private func deliver() {
        guard !answers.isEmpty else { return }
        onAnswer(answers)
        answers = []
    }

    private func wait() {
        let milliseconds: UInt64
        if queue.isReady {
            milliseconds = 0
        } else if !running.isEmpty {
            milliseconds = Worker.workMilliseconds
        } else if let busyAt {
            milliseconds = idle.reduced(by: Worker.time.since(busyAt)).milliseconds + 1
        } else {
            milliseconds = UInt64(Int32.max)
        }
        // The wait also ends at libcurl's own deadlines, and with `curl_multi_wakeup`.
        let code = curl_multi_poll(multi.raw, nil, 0, Int32(clamping: milliseconds), nil)
        // Without memory the call returns immediately: the thread must not turn all the time.
        if code != CURLM_OK { usleep(10_000) }
    }

    private func end(_ requests: [PushHTTPRequest]) {
        let reason = "the client has stopped"
        failRunning(reason)
        let late = requests + inbox.use(nil) + queue.takeAll()
        answers += late.map { $0.notTried(reason) }
        spare = []
        curl_multi_cleanup(multi.raw)
        deliver()
    }

    private static var time: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }
}
