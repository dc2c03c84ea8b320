"""What operators reach, at `/admin/v1`: for them alone; every act is kept with who, why and when."""

PREFIX = "/admin/v1"
