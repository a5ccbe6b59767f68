import Testing

@testable import PostgresEngine

@Suite("A database's URL before it is used") struct ConnectionStringTests {
    @Test(
        "is plain where it has no password",
        arguments: [
            "postgres://a@h/x", "postgresql://h", "postgres://a@h1:1,h2:2/x?target_session_attrs=read-write",
            "postgres://a:@h/x", "postgres://a@[::1]:5432/x", "host=h dbname=x", "host=@abstract dbname=x",
            "x",
            "",
            "postgres://a@h/x?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            "postgres:///x?host=/run/postgresql",
        ])
    func hasNoPassword(text: String) {
        #expect(ConnectionString.look(text) == .plain, "\(text)")
    }

    @Test(
        "is known to have a password",
        arguments: [
            "postgres://a:b@h/x", "postgres://a:b@h1,h2/x", "postgres://a@h/x?password=b", "postgres://:b@h",
            "postgres://a:b%40c%2Fd@h/x", "host=h password=b", "host=h password = 'b c'",
            "postgres://a@h/x?sslpassword=b",
        ])
    func hasOne(text: String) {
        #expect(ConnectionString.look(text) == .withPassword, "\(text)")
    }

    /// An error of libpq or of a name server would show parts of such a string, with the password.
    @Test(
        "is malformed where an error about it would show the password",
        arguments: [
            "postgres://a:b%zz@h/x", "postgres://a:b@h/x?passwrd=c", "postgres://a:b@c@h/x",
            "postgres://a:b/c@h/x",
            "postgres://a:b@h:p/x", "host=h password='b", "host=h =b", "postgres://a:b%@h",
        ])
    func isNone(text: String) {
        #expect(ConnectionString.look(text) == .malformed, "\(text)")
    }
}
