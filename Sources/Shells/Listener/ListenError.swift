import Glibc
import NIOCore

/// A listener that could not be opened: its address, and why.
public struct ListenError: Error, CustomStringConvertible {
    /// `HOST:PORT`, or the path of a local socket.
    public let address: String
    public let reason: String

    public init(address: String, reason: String) {
        self.address = address
        self.reason = reason
    }

    public var description: String { "cannot listen on \(address): \(reason)" }

    /// Runs `open`, and gives its errors the address.
    public static func naming<Result>(_ address: String, _ open: () throws -> Result) throws -> Result {
        do {
            return try open()
        } catch let error as IOError {
            let isOfPort = error.errnoCode == EACCES && !address.hasPrefix("/")
            let remedy = isOfPort ? "; ports below 1024 need CAP_NET_BIND_SERVICE" : ""
            throw ListenError(address: address, reason: String(cString: strerror(error.errnoCode)) + remedy)
        } catch let error as SocketAddressError.UnknownHost {
            throw ListenError(address: address, reason: "\(error.host) is no name that this machine knows")
        } catch {
            throw ListenError(address: address, reason: "\(error)")
        }
    }
}
