import ArgumentParser
import CResolv
import Foundation
import Node

/// The value of `auto` in `--node` and `--peer`: the network's name for this host.
enum HostName {
    static let auto = "auto"

    static func own() throws -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0, buffer[0] != 0 else {
            throw ValidationError("This host has no name: give --node and --peer a name instead of auto.")
        }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// A node's name on the host. A container's host name is by default its id, 12 hexadecimal digits, which
    /// changes whenever the container is created again. The network then knows the container by another name,
    /// such as `tidecast-shard-2.tidecast_default`; the node takes the first part of it.
    static func nodeName(of host: String, _ reverse: (String) throws -> String?) throws -> String {
        let isContainerID = host.utf8.count == 12 && host.allSatisfy(\.isHexDigit)
        guard isContainerID, let name = try reverse(host)?.split(separator: ".").first, !name.isEmpty else {
            return host
        }
        return String(name)
    }

    /// Tries before a name server counts as silent, and microseconds between two tries.
    private static let tries = 5
    private static let pause: UInt32 = 500_000

    /// The network's name for the host's own address. Only DNS is asked, because the hosts file of a
    /// container has the id for that address.
    static func reverse(_ host: String) throws -> String? {
        var hints = addrinfo()
        hints.ai_family = AF_INET
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &found) == 0, let first = found else { return nil }
        defer { freeaddrinfo(first) }
        guard let address = first.pointee.ai_addr else { return nil }
        let number = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_addr }
        var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        // Under its id the cluster would take the node for another one, drained or not.
        var answer = name_by_dns(number, &name, Int32(name.count))
        for _ in 1..<HostName.tries where answer < 0 {
            usleep(HostName.pause)
            answer = name_by_dns(number, &name, Int32(name.count))
        }
        guard answer >= 0 else {
            throw ValidationError(
                "No name server tells this container's name: replace --node auto by a name.")
        }
        guard answer > 0 else { return nil }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// The URL at which clients reach a server.
enum PublicURL {
    /// The URL without a slash at its end. It may have a port and a path, and nothing else.
    static func checked(_ text: String, _ option: String) throws -> String {
        guard let url = URLComponents(string: text), url.scheme == "http" || url.scheme == "https",
            let host = url.host, !host.isEmpty, (1...65535).contains(url.port ?? 443),
            url.user == nil, url.query == nil, url.fragment == nil,
            text.utf8.allSatisfy({ (UInt8(ascii: "!")...UInt8(ascii: "~")).contains($0) })
        else { throw ValidationError("\(option): \(text) is not an http:// or https:// URL.") }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// The token URI of a server of which only the listener is known. No client can use an address that means
    /// all addresses; a client on this machine can use 127.0.0.1.
    static func token(_ scheme: String, _ address: NodeConfiguration.Address) -> String {
        let isAnywhere = ["0.0.0.0", "::", "", "*"].contains(address.host)
        let host = isAnywhere ? "127.0.0.1" : address.host
        return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(address.port)/token"
    }
}
